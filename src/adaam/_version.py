"""Version of the library, defined only here."""

__version__ = "0.1.0"

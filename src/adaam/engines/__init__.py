"""Engines: where the n-sized work happens."""

from adaam.engines.cpu import CPUEngine
from adaam.engines.protocol import Engine

__all__ = ["CPUEngine", "Engine", "resolve_engine"]


def resolve_engine(engine: "str | Engine") -> Engine:
    """Turn the `engine` parameter into an engine: a name, "auto", or an engine with its own settings."""
    if isinstance(engine, str):
        if engine in ("auto", "cpu"):
            return CPUEngine()
        raise ValueError(f'engine={engine!r} is not known. Use "auto", "cpu" or an engine such as CPUEngine().')
    return engine

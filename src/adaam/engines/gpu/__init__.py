"""The GPU engine: `GPUEngine` is its door, and PyTorch is imported behind it when a verb first runs."""

from adaam.engines.gpu.engine import GPUEngine

__all__ = ["GPUEngine"]

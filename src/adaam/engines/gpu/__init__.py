"""The GPU engine: `GPUEngine` is its public class; PyTorch is imported only when a verb first runs."""

from adaam.engines.gpu.engine import GPUEngine

__all__ = ["GPUEngine"]

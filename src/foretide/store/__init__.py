"""What outlives a process: the run-time configuration that a running topology watches."""

from foretide.store.runtime import RuntimeConfig, RuntimeStore

__all__ = ["RuntimeConfig", "RuntimeStore"]

"""What transactions promise: how they are decided, ended on partitions, and seen (T)."""

"""The guarded HTTP client for addresses that requesters choose."""

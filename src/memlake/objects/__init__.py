"""L1: bytes by hash. Chunking, compression, packs, parts, leases, purge. Knows nothing of paths or history."""

"""The MCP door: both seeds' memory tools over the official SDK. Parses, calls one verb, shows."""

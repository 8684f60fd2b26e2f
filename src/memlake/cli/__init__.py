"""The command line door: parse, call one Repo verb, show. Holds no rule of versioning."""

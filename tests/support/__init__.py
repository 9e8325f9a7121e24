"""Stand-ins that several tests share: registries behind a password, and a proxy that does harm on cue."""

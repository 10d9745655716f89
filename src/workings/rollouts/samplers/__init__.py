"""Programs that sample in place of the engine, one module each, found by name (`workings.config.sampler`)."""

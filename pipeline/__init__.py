"""The six phases and the engine; torch lives only here. Every phase runs by hand, too."""

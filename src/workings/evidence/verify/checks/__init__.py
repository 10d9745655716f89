"""The checks, by subject: importing a module registers its checks."""

"""Theme files, loadable by users too."""

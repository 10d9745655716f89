"""The local page over a folder of runs. It reads run directories and starts our own verbs as child processes."""

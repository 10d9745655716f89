"""The local page over a folder of runs. It reads run directories and starts commands as child processes."""

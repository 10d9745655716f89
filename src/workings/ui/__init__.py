"""The local web page over a folder of runs. It reads run directories, and runs commands in child processes."""

"""A card as a driver would name it."""

from workings.doctor.nvidia import Card


def card(capability, driver="570.133.07", name="a card"):
    """A card of this compute capability."""
    return Card(name=name, capability=capability, driver=driver, memory_bytes=2**34, free_bytes=2**34)

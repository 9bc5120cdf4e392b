"""What to change in code of the user's that asks Python for what is traced."""

from __future__ import annotations

import jax

# errors of JAX that tell of it
UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
_MENDS: dict[type[BaseException], str] = {
    jax.errors.TracerBoolConversionError: "choose with jnp.where or jax.lax.cond",
    jax.errors.TracerArrayConversionError: "use jnp instead of np",
}
_OTHERS = (
    "turn nothing that is traced into a number of Python's: no float(), int() or range() of it"
)


def mend_of(error: BaseException, otherwise: str) -> str:
    """What to write instead of that which raised `error`."""
    return _MENDS.get(type(error), _OTHERS) if isinstance(error, UNTRACEABLE) else otherwise

"""What Aiven's plugin encrypts: the data key of a segment, unwrapped by a private key, and what that opens.

The plugin wraps by BouncyCastle's RSA/NONE/OAEPWithSHA3-512AndMGF1Padding: SHA3-512 is the digest, also that of MGF1.
Not all libraries have OAEP with SHA3, so it is undone here. AES-GCM is left to `cryptography`, an extra.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any

from msgspec import Struct

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.tiered import aiven

_DIGEST = hashlib.sha3_512


class RsaKey(Struct, frozen=True):
    """The numbers of a private key. It is never shown."""

    modulus: int
    exponent: int

    def __repr__(self) -> str:
        """Return no number of it."""
        return "<RsaKey>"


def parse_private_key(pem: bytes) -> RsaKey:
    """Parse a private RSA key in PEM. Raises Corrupt for anything else, Unsupported without the extra."""
    serialization = _imported("cryptography.hazmat.primitives.serialization")
    try:
        numbers = serialization.load_pem_private_key(pem, None).private_numbers()
        return RsaKey(numbers.public_numbers.n, numbers.d)
    except (ValueError, TypeError, AttributeError, KlogError) as error:
        raise Corrupt("not a private RSA key in PEM without a password") from error


def unwrap(wrapped: bytes, key: RsaKey) -> bytes:
    """Return the data key. Raises Corrupt if this private key does not unwrap it."""
    size, digest_size = (key.modulus.bit_length() + 7) // 8, _DIGEST().digest_size
    cipher = int.from_bytes(wrapped, "big")
    if len(wrapped) != size or cipher >= key.modulus or size < 2 * digest_size + 2:
        raise _wrong_key()
    encoded = pow(cipher, key.exponent, key.modulus).to_bytes(size, "big")
    masked_seed, masked = encoded[1 : 1 + digest_size], encoded[1 + digest_size :]
    block = _xor(masked, _mask(_xor(masked_seed, _mask(masked, digest_size)), len(masked)))
    head, one, data_key = block[digest_size:].partition(b"\x01")
    if encoded[0] or block[:digest_size] != _DIGEST().digest() or not one or any(head):
        raise _wrong_key()
    if len(data_key) != aiven.DATA_KEY_SIZE:
        raise Corrupt(f"the data key has {len(data_key)} bytes, not {aiven.DATA_KEY_SIZE}")
    return data_key


def unseal(data: bytes, data_key: bytes, aad: bytes) -> bytes:
    """Decrypt a chunk or an index. Raises Corrupt if a bit of it was changed."""
    if len(data) < aiven.IV_SIZE + aiven.TAG_SIZE:
        raise Corrupt(f"{len(data)} bytes are too few for something encrypted")
    ciphers = _imported("cryptography.hazmat.primitives.ciphers.aead")
    sealed = aiven.SEALED.parse(data)
    invalid = _imported("cryptography.exceptions").InvalidTag
    try:
        plain: bytes = ciphers.AESGCM(data_key).decrypt(sealed.iv, sealed.ciphertext_and_tag, aad)
    except invalid as error:
        raise Corrupt(
            "encrypted bytes were changed: the tag does not match", kafka_class="AEADBadTagException"
        ) from error
    return plain


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1."""
    rounds = range(-(-size // _DIGEST().digest_size))
    return b"".join(_DIGEST(seed + n.to_bytes(4, "big")).digest() for n in rounds)[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _wrong_key() -> Corrupt:
    return Corrupt("this private key does not unwrap the data key")


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise Unsupported("encrypted segments need cryptography: pip install 'klogtool[tiered]'") from error

//! Sizes of index arrays.

/// Smallest block of metadata for an array, in bytes.
pub(super) const SMALLEST_BLOCK: usize = 16;

/// Bytes of an entry of the index array of a slab of `objects` objects.
pub(super) const fn index_bytes(objects: usize) -> usize {
    if objects <= 256 { 1 } else { 2 }
}

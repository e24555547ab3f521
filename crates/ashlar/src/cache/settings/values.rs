//! Values of options, as their text is read: a value, or what was expected.

use crate::base::units::BLOCK_ORDER;
use crate::engine::Tunable;
use ashlar_macros::place;

/// The value of a tunable, or what was expected.
#[place(cold)]
pub(super) fn tunable(which: Tunable, value: &str) -> Result<usize, &'static str> {
    let (low, high) = which.range();
    number(value, low, high).ok_or(match which {
        Tunable::CpuPartial => "cpu_partial=0 to 1048576 (objects)",
        Tunable::MinPartial => "min_partial=0 to 1048576 (slabs)",
        Tunable::SheafCapacity => "sheaf_capacity=0 to 254 (objects)",
        Tunable::RemoteNodeDefragRatio => "remote_node_defrag_ratio=0 to 100 (percent)",
        Tunable::Limit => "limit=1 to 8192 (objects)",
        Tunable::BatchCount => "batchcount=1 to 8192 (objects)",
        Tunable::Shared => "shared=0 to 64 (batches)",
    })
}

/// What `create` says of a `max_order` that is too large: larger slabs than a block of the zone.
pub(crate) const MAX_ORDER: &str = match BLOCK_ORDER {
    9 => "max_order: expected 0 to 9",
    7 => "max_order: expected 0 to 7",
    _ => "max_order: expected 0 to 5",
};

#[place(cold)]
pub(super) fn min_order(value: &str) -> Result<u8, &'static str> {
    const EXPECTED: &str = match BLOCK_ORDER {
        9 => "min_order=0 to min_order=9",
        7 => "min_order=0 to min_order=7",
        _ => "min_order=0 to min_order=5",
    };
    Ok(number(value, 0, usize::from(BLOCK_ORDER)).ok_or(EXPECTED)? as u8)
}

#[place(cold)]
pub(super) fn max_order(value: &str) -> Result<u8, &'static str> {
    const EXPECTED: &str = match BLOCK_ORDER {
        9 => "max_order=0 to max_order=9",
        7 => "max_order=0 to max_order=7",
        _ => "max_order=0 to max_order=5",
    };
    Ok(number(value, 0, usize::from(BLOCK_ORDER)).ok_or(EXPECTED)? as u8)
}

#[place(cold)]
pub(super) fn min_objects(value: &str) -> Result<u32, &'static str> {
    Ok(number(value, 0, 32767).ok_or("min_objects=0 to 32767")? as u32)
}

/// A key without a value.
#[place(cold)]
pub(super) fn no_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() { Ok(()) } else { Err("nomerge without a value") }
}

/// A number with an optional suffix K, M or G, inside a range.
#[place(cold)]
pub(super) fn number(value: &str, low: usize, high: usize) -> Option<usize> {
    let (digits, unit) = match value.as_bytes().last()? {
        b'K' | b'k' => (&value[..value.len() - 1], 1 << 10),
        b'M' | b'm' => (&value[..value.len() - 1], 1 << 20),
        b'G' | b'g' => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1),
    };
    let n = digits.parse::<usize>().ok()?.checked_mul(unit)?;
    (low..=high).contains(&n).then_some(n)
}

#[place(cold)]
pub(super) fn switch(value: &str) -> Option<bool> {
    match value {
        "on" | "yes" | "1" | "true" => Some(true),
        "off" | "no" | "0" | "false" => Some(false),
        _ => None,
    }
}

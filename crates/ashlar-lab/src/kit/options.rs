//! Values of options that several experiments take, each checked with what was expected.

/// Largest object size of the lab: larger ones measure the system's mmap, not an allocator.
pub(crate) const MAX_SIZE: usize = 1 << 20;

/// Sorted, without repeats, never empty. (A type of its own, because clap takes a bare `Vec` for a
/// repeated option.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SizeList(pub(crate) Vec<usize>);

pub(crate) fn parse_scale(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(scale) if (0.0001..=100.0).contains(&scale) => Ok(scale),
        _ => Err("expected a number from 0.0001 to 100".to_owned()),
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let expected = format!("expected a number of bytes from 1 to {MAX_SIZE}");
    match text.trim().parse::<usize>() {
        Ok(size) if (1..=MAX_SIZE).contains(&size) => Ok(size),
        Ok(size) => Err(format!("`{size}` is out of range: {expected}")),
        Err(_) => Err(format!("`{}` is not a size: {expected}", text.trim())),
    }
}

pub(crate) fn parse_sizes(text: &str) -> Result<SizeList, String> {
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let Some((low, high)) = part.split_once("..") else {
            sizes.push(parse_size(part)?);
            continue;
        };
        let (low, high) = (parse_size(low)?, parse_size(high)?);
        let before = sizes.len();
        sizes.extend((0..=MAX_SIZE.ilog2()).map(|bit| 1 << bit).filter(|size| (low..=high).contains(size)));
        if sizes.len() == before {
            return Err(format!("`{}` holds no power of two: expected LOW..HIGH with LOW <= HIGH", part.trim()));
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(SizeList(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_lists_and_ranges_of_powers_of_two() {
        let sizes = |text| parse_sizes(text).unwrap().0;
        assert_eq!(sizes("8"), [8]);
        assert_eq!(sizes("64, 8,8"), [8, 64]);
        assert_eq!(sizes("8..64"), [8, 16, 32, 64]);
        assert_eq!(sizes("10..70,3"), [3, 16, 32, 64]);
        assert_eq!(sizes("8..16384").len(), 12);
    }

    #[test]
    fn bad_sizes_are_refused_with_what_was_expected() {
        for bad in ["0", "", "eight", "-8", "8,,16", "2000000", "64..8", "0..8", "9..15", "8.."] {
            let message = parse_sizes(bad).unwrap_err();
            assert!(message.contains("expected"), "{bad}: {message}");
        }
    }
}

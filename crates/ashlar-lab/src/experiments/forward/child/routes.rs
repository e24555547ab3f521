//! The routing table: thousands of prefixes, the longest that holds an address wins.
//!
//! The table is a tree bitmap (Eatherton, Varghese and Dittia), of the crate `prefix-trie`. Lengths
//! of prefixes are spread about as in the Internet's table, where three of five are /24; addresses
//! are random, from a fixed seed.

use prefix_trie::PrefixMap;

use crate::kit::random::Rng;

/// Number of a neighbour.
pub(crate) type Hop = u16;

/// Neighbours that the routes lead to.
const HOPS: usize = 32;

/// The address block that no route covers (its first byte): that of RFC 2544's benchmarks,
/// 198.18.0.0/15, lies in it.
pub(crate) const UNROUTED: u8 = 198;

/// Share of each length of prefix, in per mille; together 1000.
const LENGTHS: [(u8, usize); 13] = [
    (8, 2),
    (12, 3),
    (14, 5),
    (15, 5),
    (16, 25),
    (17, 10),
    (18, 15),
    (19, 30),
    (20, 50),
    (21, 60),
    (22, 110),
    (23, 90),
    (24, 595),
];

/// Prefixes and the neighbours behind them.
#[derive(Debug)]
pub(crate) struct Routes {
    table: PrefixMap<(u32, u8), Hop>,
    macs: Vec<[u8; 6]>,
}

impl Routes {
    /// A table of `count` prefixes.
    pub(crate) fn generate(count: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut list = std::collections::BTreeMap::new();
        while list.len() < count {
            let mut share = rng.below(1000);
            let mut length = 24;
            for (candidate, part) in LENGTHS {
                if share < part {
                    length = candidate;
                    break;
                }
                share -= part;
            }
            let address = (rng.draw() >> 32) as u32 & (u32::MAX << (32 - length));
            let first = (address >> 24) as u8;
            if matches!(first, 0 | 10 | 127 | UNROUTED | 224..) {
                continue;
            }
            list.insert((address, length), rng.below(HOPS) as Hop);
        }
        Self::from_list(&list.into_iter().collect::<Vec<_>>())
    }

    /// A table of just these.
    pub(crate) fn from_list(list: &[((u32, u8), Hop)]) -> Self {
        let macs = (0..HOPS as u16).map(|hop| [2, 0, 0, 1, (hop >> 8) as u8, hop as u8]).collect();
        Self { table: list.iter().copied().collect(), macs }
    }

    /// The neighbour for an address.
    #[inline]
    pub(crate) fn lookup(&self, address: u32) -> Option<Hop> {
        self.table.get_lpm(&(address, 32)).map(|(_, &hop)| hop)
    }

    /// The Ethernet address of a neighbour.
    #[inline]
    pub(crate) fn mac(&self, hop: Hop) -> [u8; 6] {
        self.macs[usize::from(hop)]
    }

    /// An address that the table has a route for.
    pub(crate) fn some_address(&self, rng: &mut Rng) -> u32 {
        let (address, length) = self.table.keys().nth(rng.below(self.table.len())).unwrap_or((0, 0));
        let host = u32::MAX.checked_shr(u32::from(length)).unwrap_or(0);
        address | ((rng.draw() >> 32) as u32 & host)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::experiments::forward::child::routes::Rng;

    /// What a table must answer: the neighbour of the longest prefix that holds the address, found
    /// by looking at all.
    fn naive(list: &[((u32, u8), Hop)], address: u32) -> Option<Hop> {
        let holds = |&&((prefix, length), _): &&((u32, u8), Hop)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            prefix & mask == address & mask
        };
        list.iter().filter(holds).max_by_key(|((_, length), _)| length).map(|&(_, hop)| hop)
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_look_at_all_prefixes(
            list in prop::collection::btree_map((0u32..1 << 12, 0u8..=32), 0..HOPS as Hop, 0..60),
            others in prop::collection::vec(0u32..1 << 12, 40),
        ) {
            // Few addresses, spread over all bits, so that prefixes lie in each other; of one
            // prefix one entry.
            let spread = |address: u32| address << 20 | (address & 0xFF) << 8 | (address >> 4 & 0xFF);
            let mask = |address: u32, length: u8| address & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let unique: std::collections::BTreeMap<(u32, u8), Hop> =
                list.iter().map(|(&(address, length), &hop)| ((mask(spread(address), length), length), hop)).collect();
            let list: Vec<_> = unique.into_iter().collect();
            let routes = Routes::from_list(&list);
            let inside = list.iter().map(|((address, _), _)| *address);
            for address in others.into_iter().map(spread).chain(inside) {
                for address in [address, address ^ 1, address.wrapping_sub(1), address | 0xFF] {
                    prop_assert_eq!(routes.lookup(address), naive(&list, address), "{:#x}", address);
                }
            }
        }
    }

    #[test]
    fn a_table_has_as_many_prefixes_as_asked_for_and_none_for_the_unrouted_block() {
        let routes = Routes::generate(5000, 1);
        assert_eq!(routes.table.len(), 5000);
        let mut rng = Rng::new(2);
        for _ in 0..2000 {
            assert!(routes.lookup(routes.some_address(&mut rng)).is_some());
            assert_eq!(routes.lookup(u32::from(UNROUTED) << 24 | rng.below(1 << 24) as u32), None);
        }
        let long = routes.table.keys().filter(|(_, length)| *length == 24).count();
        assert!((2700..3300).contains(&long), "three of five are /24: {long}");
    }

    #[test]
    fn shares_of_lengths_are_a_whole() {
        assert_eq!(LENGTHS.iter().map(|(_, share)| share).sum::<usize>(), 1000);
    }
}

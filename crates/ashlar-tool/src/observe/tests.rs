//! The reader on memory that lies: it ends, without a panic, whatever the process says.

use ashlar::window::{FORMAT, SIGNATURE, Window};
use proptest::prelude::*;

use super::memory::{Memory, ReadError, Reader, printable};
use super::samples;
use super::shares::Shares;
use super::snapshot::{NoSnapshot, take, window};
use super::text::short;

/// A process whose every address holds something: a window at [`AT`], and elsewhere bytes that
/// depend on the address.
struct Liar {
    window: Vec<u8>,
    seed: u64,
    /// One in this many words is not small.
    wild: u64,
    /// Addresses from here on are not mapped.
    end: u64,
}

const AT: u64 = 0x10_000;
const BUDGET: u64 = 4 << 20;

impl Liar {
    fn word(&self, at: u64) -> u64 {
        let mixed = (at ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        if mixed.is_multiple_of(self.wild) { mixed } else { mixed >> 60 }
    }
}

impl Memory for Liar {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), ReadError> {
        for (offset, byte) in into.iter_mut().enumerate() {
            let at = at.checked_add(offset as u64).filter(|&at| at < self.end).ok_or(ReadError::Unmapped(at))?;
            let in_window = at.checked_sub(AT).and_then(|at| self.window.get(at as usize));
            *byte = in_window.copied().unwrap_or_else(|| self.word(at & !7).to_ne_bytes()[at as usize % 8]);
        }
        Ok(())
    }
}

/// Bytes of a window whose head is right.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(Window::SIZE, 0);
    bytes[..8].copy_from_slice(&SIGNATURE);
    bytes[8..12].copy_from_slice(&FORMAT.to_ne_bytes());
    bytes[12..16].copy_from_slice(&(Window::SIZE as u32).to_ne_bytes());
    bytes
}

/// Words that are often small, as offsets and counts are, and sometimes not.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let half = prop_oneof![4 => 0u32..64, 2 => 0u32..5000, 1 => any::<u32>()];
    proptest::collection::vec(half, Window::SIZE / 4)
        .prop_map(|halves| halves.into_iter().flat_map(u32::to_ne_bytes).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_process_that_lies_is_read_to_an_end(
        bytes in words(), seed: u64, wild in prop_oneof![Just(2u64), Just(16), Just(1 << 40)], end in prop_oneof![Just(1u64 << 20), Just(u64::MAX)],
    ) {
        let _ = take(&Liar { window: signed(bytes), seed, wild, end }, AT, BUDGET);
    }

    #[test]
    fn samples_of_a_process_that_lies_are_read_to_an_end(
        bytes in words(), seed: u64, wild in prop_oneof![Just(2u64), Just(16), Just(1 << 40)], end in prop_oneof![Just(1u64 << 20), Just(u64::MAX)],
    ) {
        let liar = Liar { window: signed(bytes), seed, wild, end };
        let reader = Reader::new(&liar, BUDGET);
        let mut window = window(&reader, AT).expect("a window");
        // Sizes and offsets as they are, so that samples are read.
        if seed & 1 == 0 {
            window.profile.sample_bytes = 56;
            window.profile.site_head = 7;
        }
        if let Ok(Some(profile)) = samples::read(&reader, &window, 0) {
            prop_assert!(profile.live.iter().all(|live| live.site < profile.sites.len()));
            let mut shares = Shares::new(&reader, &window);
            for live in &profile.live {
                let share = shares.of(live.address);
                prop_assert!(share.as_ref().is_err() || share.as_ref().is_ok_and(|share| share.is_finite()), "{share:?}");
            }
        }
    }

    #[test]
    fn bytes_without_a_signature_are_no_window(bytes in proptest::collection::vec(any::<u8>(), Window::SIZE)) {
        prop_assume!(bytes[..8] != SIGNATURE);
        let liar = Liar { window: bytes, seed: 0, wild: 2, end: u64::MAX };
        prop_assert_eq!(take(&liar, AT, BUDGET).err(), Some(NoSnapshot::NoWindow));
    }

    #[test]
    fn numbers_fit_their_columns(number: u64, width in 5usize..12) {
        prop_assert!(short(number, width).len() <= width);
    }
}

#[test]
fn a_window_of_another_format_says_its_version() {
    let mut window = signed(Vec::new());
    window[8..12].copy_from_slice(&7u32.to_ne_bytes());
    window[16..21].copy_from_slice(b"9.8\x1b7");
    let error = take(&Liar { window, seed: 0, wild: 2, end: u64::MAX }, AT, BUDGET).err();
    assert_eq!(error, Some(NoSnapshot::OtherFormat { version: "9.8?7".to_owned(), format: 7 }));
}

/// Found by the fuzz target.
#[test]
fn a_name_at_the_end_of_all_addresses_is_refused() {
    let mut layout = Window::from_bytes(&signed(Vec::new()).try_into().expect("a window"));
    layout.alias.name = u32::MAX - 3;
    let liar = Liar { window: signed(Vec::new()), seed: 0, wild: 1 << 40, end: u64::MAX };
    let refused = super::caches::aliases(&Reader::new(&liar, BUDGET), &layout, &[]);
    assert_eq!(refused.err(), Some(ReadError::Nonsense("an alias is too large")));
}

#[test]
fn names_cannot_act_on_a_terminal() {
    assert_eq!(printable(b"a\x1b[2Jb\n\xff"), "a?[2Jb?\u{fffd}");
}

//! Counts the instructions of a call by single-stepping, and compares counts with golden files.

use crate::common::step::stepped;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Decodes the instruction at an address.
pub(crate) fn decode(at: u64) -> Instruction {
    // SAFETY: `at` is an address of code, which more than 15 readable bytes follow: at least the
    // padding of its section and the next section.
    let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, 15) };
    Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
}

/// Counts the instructions that `operation` executes between the start of the function at `start`
/// and its return, with those of the functions it calls.
pub(crate) fn executed_with_calls(start: u64, operation: impl FnOnce()) -> usize {
    each_executed(start, &mut |_| {}, operation)
}

/// As [`executed_with_calls`], and calls `each` for every instruction.
pub(crate) fn each_executed(start: u64, each: &mut dyn FnMut(&Instruction), operation: impl FnOnce()) -> usize {
    let (mut count, mut depth) = (0, 0);
    stepped(
        &mut |trap| {
            if depth == 0 && trap.rip() == start && count == 0 {
                depth = 1;
            }
            if depth == 0 {
                return;
            }
            count += 1;
            each(&decode(trap.rip()));
            match decode(trap.rip()).flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => depth += 1,
                FlowControl::Return => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                trap.stop();
            }
        },
        operation,
    );
    count
}

/// Compares counts with a golden file, or writes the file where the environment says so.
pub(crate) fn about_as_golden(file: &str, text: &str) {
    if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(file, text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(file).expect("the golden file is there");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (found, golden) = (words(text), words(&golden));
    assert_eq!(found.len(), golden.len(), "another shape; run this test with ASHLAR_UPDATE_GOLDEN=1\n{text}");
    for (found, golden) in found.iter().zip(&golden) {
        // The compiler generates this code, unlike the entry points, so a tenth is tolerated.
        let close = match (found.parse::<f64>(), golden.parse::<f64>()) {
            (Ok(found), Ok(golden)) => (found - golden).abs() <= golden / 10.0,
            _ => found == golden,
        };
        assert!(close, "{found}, not {golden}; if intended, run this test with ASHLAR_UPDATE_GOLDEN=1\n{text}");
    }
}

//! That the unchecked functions are what they claim: the product's machine code less the checks,
//! and on the fast path.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

use super::timed::{bursts, pairs, slow};
use super::unchecked::{self, Unchecked};
use crate::experiments::checks::plan::{BURST, LARGEST};

/// The forms of the instructions of a function up to its first `ret`.
fn forms(start: u64) -> Vec<Code> {
    // SAFETY: `start` is a function, and more than 400 readable bytes of code follow it: at least
    // the other functions of this program.
    let bytes = unsafe { core::slice::from_raw_parts(start as *const u8, 400) };
    let mut found = Vec::new();
    for instruction in Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
        found.push(Instruction::code(&instruction));
        if instruction.flow_control() == FlowControl::Return {
            return found;
        }
    }
    panic!("no `ret` in {found:?}");
}

/// What `whole` has and `part` has not, if `part` is `whole` with some left out.
fn left_out(whole: &[Code], part: &[Code]) -> Vec<Code> {
    let mut rest = part.iter().peekable();
    let left: Vec<Code> = whole.iter().copied().filter(|code| rest.next_if(|next| *next == code).is_none()).collect();
    assert!(rest.peek().is_none(), "not a part of the product's text: {rest:?}");
    left
}

#[test]
fn the_unchecked_text_is_the_products_less_the_checks() {
    let of = |product: u64, ours: u64| left_out(&forms(product), &forms(ours));
    let malloc = of(ashlar::malloc::malloc as *const () as u64, unchecked::malloc as *const () as u64);
    let free = of(ashlar::malloc::free as *const () as u64, unchecked::free as *const () as u64);
    // mov rcx, rax; shr rcx, 4; ror cx, 2; mov [rcx], sil
    assert_eq!(malloc, [Code::Mov_rm64_r64, Code::Shr_rm64_imm8, Code::Ror_rm16_imm8, Code::Mov_rm8_r8]);
    // mov byte ptr [r8], 0
    assert_eq!(free, [Code::Mov_rm8_imm8]);
}

/// In a process of its own, because the unchecked functions are for one thread.
#[test]
fn the_unchecked_functions_stay_on_their_fast_path() {
    const CHILD: &str = "ASHLAR_LAB_TEST_UNCHECKED";
    const NAME: &str = "the_unchecked_functions_stay_on_their_fast_path";
    if std::env::var_os(CHILD).is_none() {
        let out = std::process::Command::new(std::env::current_exe().expect("a program"))
            .args([NAME, "--nocapture", "--test-threads", "1"])
            .env(CHILD, "1")
            .env("ASHLAR_OPTIONS", "reaper=off,nodes=1")
            .output()
            .expect("the child starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    // The first call starts the allocator.
    unchecked::prepare(16);
    if !ashlar::malloc::has_fast_paths() {
        eprintln!("SKIPPED: malloc has no fast path here");
        return;
    }
    const PAIRS: usize = 40_000;
    let mut size = 16;
    while size <= LARGEST {
        unchecked::prepare(size);
        for pass in [pairs::<Unchecked>, bursts::<Unchecked>] {
            pass(size, BURST);
            let before = slow();
            pass(size, PAIRS);
            let share = (slow() - before) as f64 / (2 * PAIRS) as f64;
            assert!(share < 0.01, "{size} bytes: {share} of the calls left the fast path");
        }
        size *= 2;
    }
    // 2000 objects outrun the sheaves: the slow paths serve them, and are counted.
    let before = slow();
    unchecked::prepare(LARGEST);
    let objects: Vec<_> = (0..2000).map(|_| unchecked::malloc(LARGEST)).collect();
    for &object in &objects {
        // SAFETY: live, with room for a byte, and freed once below.
        unsafe { object.write(1) };
    }
    // SAFETY: live, each freed once, of the size that was prepared.
    objects.into_iter().for_each(|object| unsafe { unchecked::free(object) });
    assert!(slow() > before, "the count of slow calls counts");
}

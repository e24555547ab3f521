//! The random distances between samples, and the weights that make up for them.
//!
//! Written without the standard library's functions, which `no_std` lacks.

use crate::base::sync::{AtomicU64, Ordering};

/// The state of the generator: SplitMix64, whose steps are additions, so threads share it without
/// a lock.
static STATE: AtomicU64 = AtomicU64::new(0);
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Starts the generator with bits that differ from run to run.
#[place(cold)]
pub(super) fn seed(bits: u64) {
    STATE.fetch_xor(bits, Ordering::Relaxed);
}

#[place(cold)]
fn bits() -> u64 {
    let mut z = STATE.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the bytes until the next sample: exponentially distributed, `rate` on average.
#[place(cold)]
#[inline(never)]
pub(super) fn gap(rate: usize) -> i32 {
    // Uniform in 0 to 1, without 0.
    let uniform = ((bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    // At most 37 times the rate, because the least value is 2^-53. The rate is limited, so that
    // this fits.
    (-ln(uniform) * rate as f64) as i32
}

/// Returns the objects that a sample of `size` bytes stands for: the inverse of the probability
/// that it was taken.
#[place(cold)]
#[inline(never)]
pub(super) fn weight(size: usize, rate: usize) -> f64 {
    if rate <= 1 {
        return 1.0;
    }
    1.0 / one_less_exp(size.max(1) as f64 / rate as f64)
}

/// The natural logarithm of a positive normal number.
#[place(cold)]
fn ln(x: f64) -> f64 {
    let exponent = ((x.to_bits() >> 52) as i64 - 1023) as f64;
    let mantissa = f64::from_bits(x.to_bits() & ((1 << 52) - 1) | 1023 << 52);
    // ln(m) = 2 artanh((m - 1) / (m + 1)), and the argument is at most a third.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut sum, mut power, mut n) = (0.0, z, 1.0);
    while n < 31.0 {
        sum += power / n;
        power *= z * z;
        n += 2.0;
    }
    exponent * core::f64::consts::LN_2 + 2.0 * sum
}

/// Returns `1 - exp(-x)` for a positive `x`.
#[place(cold)]
fn one_less_exp(x: f64) -> f64 {
    if x > 40.0 {
        return 1.0;
    }
    // For f(y) = 1 - exp(-y), f(2y) = f(y) (2 - f(y)). Halving until the series converges quickly.
    let (mut y, mut halvings) = (x, 0);
    while y > 0.125 {
        y /= 2.0;
        halvings += 1;
    }
    let (mut sum, mut term, mut n) = (0.0, y, 1.0);
    while n < 12.0 {
        sum += term;
        n += 1.0;
        term *= -y / n;
    }
    for _ in 0..halvings {
        sum *= 2.0 - sum;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_exponentials_are_those_of_the_standard_library() {
        for i in 1..2000 {
            let x = 1.0 / (1u64 << (i % 53)) as f64 * (1.0 + f64::from(i) / 2001.0);
            assert!((ln(x) - x.ln()).abs() < 1e-11, "{x}");
            let x = f64::from(i) / 40.0;
            assert!((one_less_exp(x) + (-x).exp_m1()).abs() < 1e-13, "{x}");
        }
        for x in [1e-9, 1e-6, 1e-3] {
            assert!((one_less_exp(x) / -(-x).exp_m1() - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_the_exponential_distribution() {
        for rate in [16, 512 << 10, super::super::MOST_RATE] {
            let gaps: std::vec::Vec<f64> = (0..200_000).map(|_| f64::from(gap(rate)) / rate as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let above = gaps.iter().filter(|&&gap| gap > 1.0).count() as f64 / gaps.len() as f64;
            // The truncation to whole bytes takes half a byte on average. Six sigma.
            assert!((mean + 0.5 / rate as f64 - 1.0).abs() < 0.0135, "{rate}: {mean}");
            assert!((above - (-1.0f64).exp()).abs() < 0.04, "{rate}: {above}");
            assert!(gaps.iter().all(|&gap| gap >= 0.0));
        }
    }

    #[test]
    fn weights_undo_the_probability_of_a_sample() {
        assert_eq!((weight(100, 1), weight(0, 1)), (1.0, 1.0));
        assert!((weight(64, 512 << 10) - 8192.5).abs() < 0.01);
        assert_eq!(weight(1 << 30, 512 << 10), 1.0);
    }
}

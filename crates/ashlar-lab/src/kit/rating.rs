//! Signs for how one cost stands against another, as in the mail of 2007.
//!
//! The mail's ratings follow no single rule. This is the lab's: within 5 % is equal, as it is in
//! nearly all rows of the mail.

/// Characters of the widest rating.
pub(crate) const WIDEST: usize = 6;
/// Within this much of the other is "equal".
pub(crate) const EQUAL: f64 = 0.05;
/// Upper ends of one, two and three signs; above the last there are four, and at twofold a number.
const STEPS: [f64; 3] = [0.20, 0.40, 0.70];

/// Rates `ours` against `peer`, both costs.
pub(crate) fn rating(ours: f64, peer: f64) -> String {
    let (sign, ratio) = if ours <= peer { ("+", peer / ours) } else { ("-", ours / peer) };
    if sign == "+" && ratio > 10.0 {
        return "> 10 *".to_owned();
    }
    if sign == "+" && ratio >= 2.0 {
        return format!("{} *", ratio.floor());
    }
    // 105 / 100 - 1 is a little more than 0.05 in binary: a millionth decides nothing.
    let by = ratio - 1.0 - 1e-6;
    if by <= EQUAL {
        return "=".to_owned();
    }
    sign.repeat(1 + STEPS.iter().filter(|step| by > **step).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rating_follows_the_printed_rule() {
        let table = [
            (100.0, 100.0, "="),
            (100.0, 105.0, "="),
            (105.0, 100.0, "="),
            (100.0, 106.0, "+"),
            (106.0, 100.0, "-"),
            (100.0, 120.0, "+"),
            (100.0, 121.0, "++"),
            (121.0, 100.0, "--"),
            (100.0, 141.0, "+++"),
            (170.0, 100.0, "---"),
            (100.0, 171.0, "++++"),
            (500.0, 100.0, "----"),
            (100.0, 199.9, "++++"),
            (100.0, 200.0, "2 *"),
            (100.0, 399.0, "3 *"),
            (100.0, 1000.0, "10 *"),
            (100.0, 1001.0, "> 10 *"),
        ];
        for (ours, peer, expected) in table {
            let found = rating(ours, peer);
            assert_eq!(found, expected, "{ours} against {peer}");
            assert!(found.len() <= WIDEST, "{found}");
        }
    }
}

//! The records as comma-separated values, one a line. No field holds a comma or a quote.

use std::io::{self, Write};

use crate::kit::record::Report;

const HEAD: &str = "test,system,size,cpus,unit,min,median,runs,oversubscribed";

pub(crate) fn write(mut out: impl Write, run: &Report) -> io::Result<()> {
    writeln!(out, "{HEAD}")?;
    for r in &run.records {
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{}",
            r.test, r.system, r.size, r.cpus, r.unit, r.min, r.median, r.runs, r.oversubscribed
        )?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::record;

    #[test]
    fn a_line_for_each_record_with_as_many_fields_as_the_head() {
        let mut out = Vec::new();
        write(&mut out, &record::sample(&[("A", "glibc", 8, 12.5), ("C", "limit", 64, 3.0)])).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "A,glibc,8,1,tsc_cycles_per_op,12.5,12.5,10,false");
        assert!(lines.len() == 3 && lines.iter().all(|line| line.split(',').count() == 9));
    }
}

//! The table that the bench prints.

use std::io::{self, Write};

use hdrhistogram::Histogram;

/// A table, line by line as it is measured.
pub(super) struct Table<'a> {
    out: &'a mut dyn Write,
}

/// So many in so many microseconds, by the second.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn per_second(count: u64, micros: u64) -> f64 {
    count as f64 * 1e6 / micros.max(1) as f64
}

impl<'a> Table<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out }
    }

    pub(super) fn title(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out, "{title}\n")?;
        self.line("", "per second   ratio    p50 µs    p99 µs")
    }

    /// A rate, and how it compares with a yardstick of the same run.
    pub(super) fn rate(
        &mut self,
        name: &str,
        rate: f64,
        yardstick: Option<f64>,
        times: Option<&Histogram<u64>>,
    ) -> io::Result<()> {
        let ratio = yardstick.map_or(String::new(), |of| format!("{:.0} %", 100.0 * rate / of));
        let (p50, p99) = times.map_or((String::new(), String::new()), |times| {
            let at = |q| times.value_at_quantile(q).to_string();
            (at(0.5), at(0.99))
        });
        self.line(name, &format!("{rate:>10.0} {ratio:>7} {p50:>9} {p99:>9}"))
    }

    /// Times alone.
    pub(super) fn times(&mut self, name: &str, times: &Histogram<u64>) -> io::Result<()> {
        let at = |q| times.value_at_quantile(q);
        self.line(name, &format!("{:>10} {:>7} {:>9} {:>9}", "", "", at(0.5), at(0.99)))
    }

    pub(super) fn line(&mut self, name: &str, figures: &str) -> io::Result<()> {
        writeln!(self.out, "{name:<62} {}", figures.trim_end())?;
        self.out.flush()
    }
}

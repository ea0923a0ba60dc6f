//! Numbers in words: times, sizes and counts.

pub(crate) use uthread_report::results::counted as count;
use uthread_report::results::{grouped, significant};

/// Returns a time in the unit that fits: 20.0 ms, 209 s.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0".to_owned(),
        seconds if seconds < 1e-3 => format!("{} us", significant(seconds * 1e6)),
        seconds if seconds < 1.0 => format!("{} ms", significant(seconds * 1e3)),
        seconds => format!("{} s", significant(seconds)),
    }
}

/// Returns a size in the unit that fits.
pub(crate) fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{} B", grouped(bytes)),
        bytes if bytes < 1024.0 * 1024.0 => format!("{} KiB", significant(bytes / 1024.0)),
        bytes => format!("{} MiB", significant(bytes / 1024.0 / 1024.0)),
    }
}

/// Returns a rate per second.
pub(crate) fn rate(rate: f64) -> String {
    format!("{}/s", significant(rate))
}

pub(crate) fn number(count: u64) -> String {
    grouped(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_units() {
        let times = [0.0, 12e-6, 0.02, 2.5, 208.8].map(time);
        assert_eq!(times, ["0", "12.0 us", "20.0 ms", "2.50 s", "209 s"]);
        let sizes = [10.0, 4400.0, 3e9].map(size);
        assert_eq!(sizes, ["10 B", "4.30 KiB", "2,861 MiB"]);
        assert_eq!(rate(14.93), "14.9/s");
    }
}

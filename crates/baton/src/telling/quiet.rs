//! Hours at which nobody is told, by the clocks of a place.

use baton_domain::channel::Quiet;
use baton_domain::time::Timestamp;
use jiff::tz::TimeZone;

/// The clocks of a place, if they are known here: `Europe/Berlin`.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

/// Whether it is quiet now. From 22:00 to 07:00 goes over midnight; of a place that is not known any
/// more the hours are taken as those of UTC, so that nobody is woken for it.
#[must_use]
pub fn is_quiet(quiet: &Quiet, now: Timestamp) -> bool {
    let zone = zone(quiet.zone.as_str()).unwrap_or(TimeZone::UTC);
    let Ok(instant) = jiff::Timestamp::from_millisecond(now.0) else { return false };
    let time = instant.to_zoned(zone).time();
    let minute =
        u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs());
    if quiet.from < quiet.to {
        (quiet.from..quiet.to).contains(&minute)
    } else {
        minute >= quiet.from || minute < quiet.to
    }
}

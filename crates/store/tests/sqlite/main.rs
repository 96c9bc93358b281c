//! SQLite behind the seam, on disks that fail and in processes that die.

mod audit;
mod caller;
mod cast;
mod containing;
mod faults;
mod full;
mod kill9;
mod opening;
mod oracle;
mod power;
mod promise;
mod raw;
mod reopening;
mod restoring;
mod script;
mod site;
mod stopping;

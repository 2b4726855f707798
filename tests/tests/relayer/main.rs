//! A host at work: from the notification to the verdict, within its limits, under faults, and what it tells of itself.

mod faults;
mod limits;
mod observe;
mod rails;
mod work;

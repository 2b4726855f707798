//! When a host or a rail has to stand still, and how it goes on: writes that nobody takes, answers that do not come, rails that
//! refuse everybody, clocks that step.

mod clock;
mod rails;
mod silence;
mod switches;
mod writes;

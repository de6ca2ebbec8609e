//! `windlass serve` over journals of real runs: who may read and start, what pages show, and what hostile data and
//! forms cannot do.

mod access;
mod attacks;
mod desk;
mod ends;
mod live;
mod pages;
mod site;
mod starting;
mod users;

//! What holds for the model whatever is asked of it, in which order, and whatever gets lost.

mod broker;
mod clients;

//! Rewriting of graphs in an e-graph.
//!
//! [`Rewrite`] reads the straight-line operators of a function into an e-graph (`read`), applies the rules of [`RULES`] until nothing new
//! comes of them or a limit on iterations or nodes is met (`saturate`), picks of every class of equal values the node that makes the whole
//! cheapest by a model of the target ([`CostModel`], [`extract`]), and writes what it picked (`write`).
//!
//! Invariants: an e-node is an operator as plain data with its result types, so all nodes of a class have one type; operations that are no
//! operators with one result stay where they are, with their operands replaced; what follows from weights alone becomes a
//! `graph.derived_parameter`; the same module gives the same bytes, since everything is visited in the order of numbers and limits count
//! iterations and nodes, never time.
//!
//! [`CostModel::kernel`] estimates kernels too, once operators are grouped.
//!
//! A rule says its numeric class and makes random instances of its left side. [`prove`] applies it to them and holds every pair of nodes
//! that it has declared equal against the reference interpreter, bit by bit or within rounding, as the class says.

mod cost;
mod derived;
pub mod extract;
mod graph;
mod kernel_cost;
mod language;
mod pass;
mod proof;
mod prune;
mod read;
mod rule;
mod rules;
mod saturate;
mod write;

pub use cost::CostModel;
pub use derived::evaluate_derived;
pub use graph::Graph;
pub use kernel_cost::{Alternative, KernelCost};
pub use language::Operation;
pub use pass::{Rewrite, Scope};
pub use proof::{Dice, Instance, ProofError, prove};
pub use rule::{Match, Rule, RuleView};
pub use rules::RULES;

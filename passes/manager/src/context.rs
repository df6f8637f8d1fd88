//! What a pass may talk to while it runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde::Serialize;

/// Something that a pass did or decided, for people and for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The pass.
    pub pass: String,
    /// What happened, in one or two words joined by `-`: `merged`, `kernel`.
    pub kind: &'static str,
    /// Names of the model's nodes that it concerns.
    pub nodes: Vec<String>,
    /// The details as a sentence.
    pub message: String,
}

/// Counters, remarks and the limit on rewrites of one compilation.
#[derive(Debug, Default)]
pub struct PassContext {
    pass: Cell<&'static str>,
    limit: Option<u64>,
    rewrites: Cell<u64>,
    counters: RefCell<BTreeMap<(&'static str, &'static str), u64>>,
    remarks: RefCell<Vec<Remark>>,
}

impl PassContext {
    /// A context that allows `limit` rewrites, or any number.
    pub fn new(limit: Option<u64>) -> Self {
        PassContext { limit, ..PassContext::default() }
    }

    pub(crate) fn enter(&self, pass: &'static str) {
        self.pass.set(pass);
    }

    /// Whether one more optional rewrite may be done; counts it if so. Once it says no, it says no for the rest of the compilation.
    #[must_use]
    pub fn rewrite(&self, counter: &'static str) -> bool {
        if self.limit.is_some_and(|limit| self.rewrites.get() >= limit) {
            return false;
        }
        self.rewrites.set(self.rewrites.get() + 1);
        self.count(counter, 1);
        true
    }

    /// Number of rewrites done so far.
    pub fn rewrites(&self) -> u64 {
        self.rewrites.get()
    }

    /// Adds to a counter of the running pass.
    pub fn count(&self, counter: &'static str, amount: u64) {
        *self.counters.borrow_mut().entry((self.pass.get(), counter)).or_insert(0) += amount;
    }

    /// Leaves a remark of the running pass.
    pub fn remark(&self, kind: &'static str, nodes: Vec<String>, message: impl Into<String>) {
        let remark = Remark { pass: self.pass.get().to_owned(), kind, nodes, message: message.into() };
        self.remarks.borrow_mut().push(remark);
    }

    /// All remarks so far, in order.
    pub fn remarks(&self) -> Vec<Remark> {
        self.remarks.borrow().clone()
    }

    /// All counters so far: pass, counter, value.
    pub fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        self.counters.borrow().iter().map(|((pass, counter), value)| (*pass, *counter, *value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewrites_stop_at_the_limit() {
        let context = PassContext::new(Some(2));
        context.enter("p");
        assert!(context.rewrite("merged"));
        context.enter("q");
        assert!(context.rewrite("merged"));
        assert!(!context.rewrite("merged"));
        assert_eq!(context.rewrites(), 2);
        assert_eq!(context.counters(), [("p", "merged", 1), ("q", "merged", 1)]);
        assert!(PassContext::new(None).rewrite("any"));
    }
}

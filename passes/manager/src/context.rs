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

/// The last of the rewrites that a limit allows: what bisection names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastRewrite {
    /// The pass that did it.
    pub pass: String,
    /// What the pass counts it as.
    pub counter: &'static str,
    /// The rule, of a pass that has several.
    pub rule: Option<&'static str>,
    /// Names of the model's nodes that it concerns, as far as the pass tells.
    pub nodes: Vec<String>,
}

/// Counters, remarks and the limit on rewrites of one compilation.
#[derive(Debug, Default)]
pub struct PassContext {
    pass: Cell<&'static str>,
    limit: Option<u64>,
    rewrites: Cell<u64>,
    last: RefCell<Option<LastRewrite>>,
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
        if self.is_last() {
            let pass = self.pass.get().to_owned();
            *self.last.borrow_mut() = Some(LastRewrite { pass, counter, rule: None, nodes: Vec::new() });
        }
        true
    }

    /// Whether the limit allows no rewrite after the one that was just done.
    fn is_last(&self) -> bool {
        self.limit == Some(self.rewrites.get())
    }

    /// Says by which rule, and of which nodes, the rewrite that was just allowed is; the names are asked for only where something wants them.
    pub fn describe(&self, rule: &'static str, nodes: impl FnOnce() -> Vec<String>) {
        if self.is_last()
            && let Some(last) = self.last.borrow_mut().as_mut()
        {
            (last.rule, last.nodes) = (Some(rule), nodes());
        }
    }

    /// The last of the rewrites that the limit allows, if it was met.
    pub fn last_rewrite(&self) -> Option<LastRewrite> {
        self.last.borrow().clone()
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
        // Passes leave a remark on what they just did.
        if self.is_last()
            && let Some(last) = self.last.borrow_mut().as_mut()
            && last.nodes.is_empty()
            && last.pass == self.pass.get()
        {
            last.nodes.clone_from(&nodes);
        }
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

    #[test]
    fn the_last_rewrite_is_known_by_its_rule_and_nodes() {
        let context = PassContext::new(Some(2));
        context.enter("p");
        assert!(context.rewrite("merged"));
        context.describe("first", || unreachable!("it is not the last one"));
        assert_eq!(context.last_rewrite(), None);
        assert!(context.rewrite("merged"));
        context.describe("second", || vec!["a".to_owned()]);
        context.remark("merged", vec!["b".to_owned()], "");
        let last = context.last_rewrite().map(|last| (last.pass, last.rule, last.nodes));
        assert_eq!(last, Some(("p".to_owned(), Some("second"), vec!["a".to_owned()])));
        // Of a pass without rules, the nodes of the remark that follows.
        let context = PassContext::new(Some(1));
        assert!(context.rewrite("merged"));
        context.remark("merged", vec!["b".to_owned()], "");
        assert_eq!(context.last_rewrite().map(|last| last.nodes), Some(vec!["b".to_owned()]));
    }
}

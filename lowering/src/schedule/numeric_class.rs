//! What a kernel's schedule may do to numbers.

/// The class of a `graph.kernel`, which its attribute `numeric_class` names: each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum NumericClass {
    /// Every operator rounds as it is written; only the order inside a sum is the schedule's.
    #[default]
    Exact,
    /// The same function of real numbers, as accurate in the operators' types as a sum in any order.
    Reassociates,
    /// Another function within a stated bound.
    Approximates,
}

impl NumericClass {
    /// The class of a word of the assembly.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "exact" => NumericClass::Exact,
            "reassociates" => NumericClass::Reassociates,
            "approximates" => NumericClass::Approximates,
            _ => return None,
        })
    }
}

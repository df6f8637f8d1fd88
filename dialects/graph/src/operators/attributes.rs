//! Reading attributes, with errors that name them.

use tenon_ir::{Attribute, Context, Op};
use tenon_tensor::DType;

use crate::tensor_type::{read_dim_expr, write_dim_expr};
use crate::{DimExpr, ErrorKind, SemanticError};

/// Reader of one operation's attributes.
pub(crate) struct Attributes<'m> {
    op: Op<'m>,
}

impl<'m> Attributes<'m> {
    pub(crate) fn of(op: Op<'m>) -> Self {
        Attributes { op }
    }

    fn error(&self, name: &str, expected: &str) -> SemanticError {
        SemanticError::new(ErrorKind::Attribute, &self.op.name(), format!("attribute `{name}` must be {expected}"))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<i64, SemanticError> {
        self.op.integer(name).ok_or_else(|| self.error(name, "an integer"))
    }

    pub(crate) fn float(&self, name: &str) -> Result<f64, SemanticError> {
        self.op.attribute(name).and_then(Attribute::as_float).ok_or_else(|| self.error(name, "a float"))
    }

    pub(crate) fn string(&self, name: &str) -> Result<String, SemanticError> {
        self.op.string(name).ok_or_else(|| self.error(name, "a string"))
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.op.attribute(name).is_some()
    }

    pub(crate) fn integers(&self, name: &str) -> Result<Vec<i64>, SemanticError> {
        self.op.attribute(name).and_then(Attribute::as_i64_array).ok_or_else(|| self.error(name, "an array of i64"))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f64>>, SemanticError> {
        match self.op.attribute(name) {
            None => Ok(None),
            Some(attribute) => attribute.as_f64_array().map(Some).ok_or_else(|| self.error(name, "an array of f64")),
        }
    }

    pub(crate) fn dtype(&self, name: &str) -> Result<DType, SemanticError> {
        self.op
            .attribute(name)
            .and_then(Attribute::as_type)
            .and_then(|ty| ty.dtype())
            .ok_or_else(|| self.error(name, "an element type"))
    }

    pub(crate) fn dim(&self, name: &str) -> Result<DimExpr, SemanticError> {
        let dim = self.op.attribute(name).and_then(read_dim_expr);
        dim.ok_or_else(|| self.error(name, "a dimension expression"))
    }

    pub(crate) fn dims(&self, name: &str) -> Result<Vec<DimExpr>, SemanticError> {
        self.op
            .attribute(name)
            .and_then(Attribute::as_array)
            .and_then(|list| list.into_iter().map(read_dim_expr).collect())
            .ok_or_else(|| self.error(name, "an array of dimension expressions"))
    }

    /// A string attribute that names a row of a table.
    pub(crate) fn keyword<T: Keyword>(&self, name: &str) -> Result<T, SemanticError> {
        let text = self.string(name)?;
        T::TABLE.iter().find(|(_, word)| *word == text).map(|(value, _)| *value).ok_or_else(|| {
            let words: Vec<_> = T::TABLE.iter().map(|(_, word)| *word).collect();
            self.error(name, &format!("one of {}, not `{text}`", words.join(", ")))
        })
    }

    /// Element type of the only result.
    pub(crate) fn result_dtype(&self) -> Result<DType, SemanticError> {
        self.op.result(0).and_then(|value| value.ty().element()).and_then(|element| element.dtype()).ok_or_else(|| {
            SemanticError::new(ErrorKind::DType, &self.op.name(), "the result must be a tensor of a known element type")
        })
    }
}

/// An enum whose values are words in the assembly.
pub(crate) trait Keyword: Copy + PartialEq + 'static {
    const TABLE: &'static [(Self, &'static str)];

    fn word(self) -> &'static str {
        Self::TABLE.iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
    }
}

/// Declares an enum of words: `keywords! { Kind { Sum = "sum", … } }`.
macro_rules! keywords {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl crate::operators::attributes::Keyword for $name {
            const TABLE: &'static [(Self, &'static str)] = &[$(($name::$variant, $word)),*];
        }
        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$($name::$variant),*];

            /// The word in the assembly.
            pub fn name(self) -> &'static str {
                crate::operators::attributes::Keyword::word(self)
            }
        }
    };
}
pub(crate) use keywords;

pub(crate) fn dims_attribute<'s>(dims: &[DimExpr], context: Context<'s>) -> Attribute<'s> {
    let dims: Vec<_> = dims.iter().map(|dim| write_dim_expr(dim, context)).collect();
    context.array(&dims)
}

pub(crate) fn push_flag<'s>(
    list: &mut Vec<(&'static str, Attribute<'s>)>,
    name: &'static str,
    set: bool,
    context: Context<'s>,
) {
    if set {
        list.push((name, context.unit()));
    }
}

//! Functions as data: straight-line code with branches, made once, evaluated on the host or emitted as MLIR.
//!
//! Both readings do the same IEEE operations in the same order, so that what is tested on the host holds on the device bit for bit.

use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Range, Sub};

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ty {
    F32,
    F64,
    I32,
    I64,
    Bool,
}

/// What an operation does; all round to nearest, ties to even.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Add,
    Sub,
    Mul,
    Div,
    Fma,
    Neg,
    Abs,
    Sqrt,
    CopySign,
    /// The larger; NaN if one of them is.
    Max,
    /// Bits of a float as an integer of its width, and back.
    Bits,
    FromBits,
    /// An i32 or i64 as f32 or f64, rounded.
    ToFloat,
    /// Ordered comparisons of floats: false for NaN.
    Less,
    LessEqual,
    Equal,
    IntAdd,
    IntSub,
    IntMul,
    /// The upper half of the product of two i64, both without a sign.
    IntMulHigh,
    /// Without a sign.
    IntRemainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    /// Arithmetic.
    ShiftRight,
    /// Logical.
    ShiftRightZero,
    /// Signed.
    IntLess,
    /// Without a sign.
    IntBelow,
    IntEqual,
    /// An i32 as i64 with zeros above.
    Widen,
    /// The low half of an i64.
    Narrow,
    Select,
}

pub(super) type Id = usize;

/// One step. Steps of branches follow the branch directly.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Argument(usize),
    Float(f32),
    Double(f64),
    Int(i32),
    Long(i64),
    Op(Code, [Id; 3]),
    Branch {
        condition: Id,
        then: Range<Id>,
        otherwise: Range<Id>,
        yields: [Vec<Id>; 2],
    },
    /// `count` times over: the value that is carried, at first `start`, becomes `next`.
    Loop {
        count: Id,
        start: Id,
        body: Range<Id>,
        next: Id,
    },
    /// What a loop carries, the first step of its body.
    Carried,
    /// A result of the branch or loop before it.
    Result,
}

/// A function of f32 values with one f32 result, or of f64 values with one f64 result.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) nodes: Vec<(Node, Ty)>,
    pub(super) result: Id,
}

/// Maker of a function.
#[derive(Default)]
pub(super) struct Graph {
    nodes: RefCell<Vec<(Node, Ty)>>,
}

macro_rules! value_types {
    ($($(#[$doc:meta])* $name:ident: $ty:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(super) struct $name<'g> {
                graph: &'g Graph,
                id: Id,
            }

            impl<'g> Data<'g> for $name<'g> {
                const TY: Ty = Ty::$ty;
                fn id(self) -> Id {
                    self.id
                }
                fn wrap(graph: &'g Graph, id: Id) -> Self {
                    $name { graph, id }
                }
            }
        )*
    };
}

/// A typed value of a graph.
pub(super) trait Data<'g>: Copy {
    const TY: Ty;
    fn id(self) -> Id;
    fn wrap(graph: &'g Graph, id: Id) -> Self;
}

value_types! {
    /// An f32.
    F: F32,
    /// An f64.
    D: F64,
    /// An i32; also 32 bits without a sign.
    I: I32,
    /// An i64.
    L: I64,
    /// A truth value.
    B: Bool,
}

impl Graph {
    /// The function of `arity` arguments that `build` makes.
    pub(super) fn function(arity: usize, build: impl for<'g> FnOnce(&'g Graph, &[F<'g>]) -> F<'g>) -> Function {
        let graph = Graph::default();
        let arguments: Vec<F<'_>> = (0..arity).map(|i| graph.push(Node::Argument(i))).collect();
        let result = build(&graph, &arguments).id;
        Function { nodes: graph.nodes.into_inner(), result }
    }

    /// The same for f64.
    pub(super) fn double(arity: usize, build: impl for<'g> FnOnce(&'g Graph, &[D<'g>]) -> D<'g>) -> Function {
        let graph = Graph::default();
        let arguments: Vec<D<'_>> = (0..arity).map(|i| graph.push(Node::Argument(i))).collect();
        let result = build(&graph, &arguments).id;
        Function { nodes: graph.nodes.into_inner(), result }
    }

    fn push<'g, T: Data<'g>>(&'g self, node: Node) -> T {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push((node, T::TY));
        T::wrap(self, nodes.len() - 1)
    }

    fn op<'g, T: Data<'g>>(&'g self, code: Code, operands: &[Id]) -> T {
        let mut ids = [0; 3];
        ids.iter_mut().zip(operands).for_each(|(id, operand)| *id = *operand);
        self.push(Node::Op(code, ids))
    }

    pub(super) fn f(&self, value: f32) -> F<'_> {
        self.push(Node::Float(value))
    }

    pub(super) fn d(&self, value: f64) -> D<'_> {
        self.push(Node::Double(value))
    }

    pub(super) fn i(&self, value: i32) -> I<'_> {
        self.push(Node::Int(value))
    }

    /// 32 bits.
    pub(super) fn bits(&self, value: u32) -> I<'_> {
        self.i(value as i32)
    }

    pub(super) fn l(&self, value: i64) -> L<'_> {
        self.push(Node::Long(value))
    }

    /// `condition ? then() : otherwise()`, only one of which is run.
    pub(super) fn branch<'g, T: Yields<'g>>(
        &'g self,
        condition: B<'g>,
        then: impl FnOnce() -> T,
        otherwise: impl FnOnce() -> T,
    ) -> T {
        let at = self.nodes.borrow().len();
        let empty = Node::Branch { condition: condition.id, then: 0..0, otherwise: 0..0, yields: [vec![], vec![]] };
        self.nodes.borrow_mut().push((empty, Ty::Bool));
        let first = then();
        let middle = self.nodes.borrow().len();
        let second = otherwise();
        let end = self.nodes.borrow().len();
        let yields = [first.ids(), second.ids()];
        self.nodes.borrow_mut()[at].0 =
            Node::Branch { condition: condition.id, then: at + 1..middle, otherwise: middle..end, yields };
        T::results(self)
    }

    /// `body` applied to `start`, then to its own result, `count` times in all.
    pub(super) fn repeat<'g>(&'g self, count: I<'g>, start: L<'g>, body: impl FnOnce(L<'g>) -> L<'g>) -> L<'g> {
        let at = self.nodes.borrow().len();
        self.nodes.borrow_mut().push((Node::Carried, Ty::Bool));
        let next = body(self.push(Node::Carried));
        let end = self.nodes.borrow().len();
        self.nodes.borrow_mut()[at].0 =
            Node::Loop { count: count.id, start: start.id, body: at + 1..end, next: next.id };
        self.push(Node::Result)
    }

    /// `c[0] + x (c[1] + x (c[2] + …))`, each step fused.
    pub(super) fn polynomial<'g>(&'g self, x: F<'g>, coefficients: &[f32]) -> F<'g> {
        let mut rest = coefficients.iter().rev();
        let mut sum = self.f(rest.next().copied().unwrap_or(0.0));
        for c in rest {
            sum = sum.fma(x, *c);
        }
        sum
    }

    /// The same for f64.
    pub(super) fn polynomial_of_double<'g>(&'g self, x: D<'g>, coefficients: &[f64]) -> D<'g> {
        let mut rest = coefficients.iter().rev();
        let mut sum = self.d(rest.next().copied().unwrap_or(0.0));
        for c in rest {
            sum = sum.fma(x, *c);
        }
        sum
    }
}

/// Values that a branch gives.
pub(super) trait Yields<'g> {
    fn ids(&self) -> Vec<Id>;
    /// The branch's results, in the order of [`Self::ids`].
    fn results(graph: &'g Graph) -> Self;
}

impl<'g, S: Data<'g>, T: Data<'g>> Yields<'g> for (S, T) {
    fn ids(&self) -> Vec<Id> {
        vec![self.0.id(), self.1.id()]
    }
    fn results(graph: &'g Graph) -> Self {
        (graph.push(Node::Result), graph.push(Node::Result))
    }
}

impl<'g, S: Data<'g>, T: Data<'g>, U: Data<'g>> Yields<'g> for (S, T, U) {
    fn ids(&self) -> Vec<Id> {
        vec![self.0.id(), self.1.id(), self.2.id()]
    }
    fn results(graph: &'g Graph) -> Self {
        (graph.push(Node::Result), graph.push(Node::Result), graph.push(Node::Result))
    }
}

/// A value, or a constant that becomes one.
pub(super) trait Operand<'g, T> {
    fn value(self, graph: &'g Graph) -> T;
}

impl<'g, T: Data<'g>> Operand<'g, T> for T {
    fn value(self, _: &'g Graph) -> T {
        self
    }
}

impl<'g> Operand<'g, I<'g>> for i32 {
    fn value(self, graph: &'g Graph) -> I<'g> {
        graph.i(self)
    }
}

macro_rules! float_operators {
    ($($name:ident $operator:ident $method:ident;)*) => {
        $(
            impl<'g, T: Operand<'g, $name<'g>>> $operator<T> for $name<'g> {
                type Output = $name<'g>;
                fn $method(self, other: T) -> $name<'g> {
                    let other = other.value(self.graph);
                    self.graph.op(Code::$operator, &[self.id, other.id])
                }
            }
        )*
    };
}

/// What both types of floats can do.
macro_rules! float_type {
    ($name:ident, $literal:ident, $constant:ident, $integer:ident) => {
        impl<'g> Operand<'g, $name<'g>> for $literal {
            fn value(self, graph: &'g Graph) -> $name<'g> {
                graph.$constant(self)
            }
        }

        #[allow(dead_code, reason = "functions of one type use what those of the other do not")]
        impl<'g> $name<'g> {
            pub(super) fn fma(self, factor: $name<'g>, addend: impl Operand<'g, $name<'g>>) -> $name<'g> {
                let addend = addend.value(self.graph);
                self.graph.op(Code::Fma, &[self.id, factor.id, addend.id])
            }

            pub(super) fn abs(self) -> $name<'g> {
                self.graph.op(Code::Abs, &[self.id])
            }

            pub(super) fn sqrt(self) -> $name<'g> {
                self.graph.op(Code::Sqrt, &[self.id])
            }

            pub(super) fn copy_sign(self, sign: $name<'g>) -> $name<'g> {
                self.graph.op(Code::CopySign, &[self.id, sign.id])
            }

            /// The larger; NaN if one of them is.
            pub(super) fn max(self, other: impl Operand<'g, $name<'g>>) -> $name<'g> {
                let other = other.value(self.graph);
                self.graph.op(Code::Max, &[self.id, other.id])
            }

            pub(super) fn to_bits(self) -> $integer<'g> {
                self.graph.op(Code::Bits, &[self.id])
            }

            pub(super) fn less(self, other: impl Operand<'g, $name<'g>>) -> B<'g> {
                let other = other.value(self.graph);
                self.graph.op(Code::Less, &[self.id, other.id])
            }

            pub(super) fn less_equal(self, other: impl Operand<'g, $name<'g>>) -> B<'g> {
                let other = other.value(self.graph);
                self.graph.op(Code::LessEqual, &[self.id, other.id])
            }

            pub(super) fn greater(self, other: impl Operand<'g, $name<'g>>) -> B<'g> {
                let other = other.value(self.graph);
                self.graph.op(Code::Less, &[other.id, self.id])
            }

            pub(super) fn equal(self, other: impl Operand<'g, $name<'g>>) -> B<'g> {
                let other = other.value(self.graph);
                self.graph.op(Code::Equal, &[self.id, other.id])
            }

            pub(super) fn is_nan(self) -> B<'g> {
                !self.equal(self)
            }

            pub(super) fn is_finite(self) -> B<'g> {
                self.abs().less($literal::INFINITY)
            }
        }

        float_operators! {
            $name Add add;
            $name Sub sub;
            $name Mul mul;
            $name Div div;
        }

        impl<'g> Neg for $name<'g> {
            type Output = $name<'g>;
            fn neg(self) -> $name<'g> {
                self.graph.op(Code::Neg, &[self.id])
            }
        }
    };
}

float_type!(F, f32, f, I);
float_type!(D, f64, d, L);

impl<'g> I<'g> {
    fn int(self, code: Code, other: impl Operand<'g, I<'g>>) -> I<'g> {
        let other = other.value(self.graph);
        self.graph.op(code, &[self.id, other.id])
    }

    pub(super) fn and(self, other: impl Operand<'g, I<'g>>) -> I<'g> {
        self.int(Code::And, other)
    }

    pub(super) fn or(self, other: impl Operand<'g, I<'g>>) -> I<'g> {
        self.int(Code::Or, other)
    }

    pub(super) fn plus(self, other: impl Operand<'g, I<'g>>) -> I<'g> {
        self.int(Code::IntAdd, other)
    }

    pub(super) fn minus(self, other: impl Operand<'g, I<'g>>) -> I<'g> {
        self.int(Code::IntSub, other)
    }

    pub(super) fn shift_left(self, other: impl Operand<'g, I<'g>>) -> I<'g> {
        self.int(Code::ShiftLeft, other)
    }

    pub(super) fn shift_right(self, other: impl Operand<'g, I<'g>>) -> I<'g> {
        self.int(Code::ShiftRight, other)
    }

    pub(super) fn int_less(self, other: impl Operand<'g, I<'g>>) -> B<'g> {
        let other = other.value(self.graph);
        self.graph.op(Code::IntLess, &[self.id, other.id])
    }

    pub(super) fn int_equal(self, other: impl Operand<'g, I<'g>>) -> B<'g> {
        let other = other.value(self.graph);
        self.graph.op(Code::IntEqual, &[self.id, other.id])
    }

    pub(super) fn as_float(self) -> F<'g> {
        self.graph.op(Code::FromBits, &[self.id])
    }

    pub(super) fn to_float(self) -> F<'g> {
        self.graph.op(Code::ToFloat, &[self.id])
    }

    pub(super) fn widen(self) -> L<'g> {
        self.graph.op(Code::Widen, &[self.id])
    }
}

impl<'g> L<'g> {
    fn long(self, code: Code, other: L<'g>) -> L<'g> {
        self.graph.op(code, &[self.id, other.id])
    }

    pub(super) fn times(self, other: L<'g>) -> L<'g> {
        self.long(Code::IntMul, other)
    }

    /// The upper half of the product, both without a sign.
    pub(super) fn times_high(self, other: L<'g>) -> L<'g> {
        self.long(Code::IntMulHigh, other)
    }

    /// The remainder by a number other than zero, both without a sign.
    pub(super) fn remainder(self, other: L<'g>) -> L<'g> {
        self.long(Code::IntRemainder, other)
    }

    pub(super) fn plus(self, other: L<'g>) -> L<'g> {
        self.long(Code::IntAdd, other)
    }

    pub(super) fn minus(self, other: L<'g>) -> L<'g> {
        self.long(Code::IntSub, other)
    }

    pub(super) fn or(self, other: L<'g>) -> L<'g> {
        self.long(Code::Or, other)
    }

    pub(super) fn shift_left(self, count: i64) -> L<'g> {
        self.long(Code::ShiftLeft, self.graph.l(count))
    }

    pub(super) fn shift_left_by(self, count: L<'g>) -> L<'g> {
        self.long(Code::ShiftLeft, count)
    }

    pub(super) fn shift_right_zero(self, count: i64) -> L<'g> {
        self.long(Code::ShiftRightZero, self.graph.l(count))
    }

    pub(super) fn shift_right(self, count: i64) -> L<'g> {
        self.long(Code::ShiftRight, self.graph.l(count))
    }

    pub(super) fn and(self, other: L<'g>) -> L<'g> {
        self.long(Code::And, other)
    }

    pub(super) fn xor(self, other: L<'g>) -> L<'g> {
        self.long(Code::Xor, other)
    }

    pub(super) fn shift_right_zero_by(self, count: L<'g>) -> L<'g> {
        self.long(Code::ShiftRightZero, count)
    }

    pub(super) fn int_less(self, other: i64) -> B<'g> {
        self.graph.op(Code::IntLess, &[self.id, self.graph.l(other).id])
    }

    /// Less, both without a sign.
    pub(super) fn below(self, other: L<'g>) -> B<'g> {
        self.graph.op(Code::IntBelow, &[self.id, other.id])
    }

    pub(super) fn int_equal(self, other: i64) -> B<'g> {
        self.graph.op(Code::IntEqual, &[self.id, self.graph.l(other).id])
    }

    pub(super) fn as_double(self) -> D<'g> {
        self.graph.op(Code::FromBits, &[self.id])
    }

    pub(super) fn to_double(self) -> D<'g> {
        self.graph.op(Code::ToFloat, &[self.id])
    }

    pub(super) fn narrow(self) -> I<'g> {
        self.graph.op(Code::Narrow, &[self.id])
    }

    pub(super) fn to_float(self) -> F<'g> {
        self.graph.op(Code::ToFloat, &[self.id])
    }
}

impl<'g> B<'g> {
    /// `self ? a : b`.
    pub(super) fn select<T: Data<'g>>(self, a: impl Operand<'g, T>, b: impl Operand<'g, T>) -> T {
        let (a, b) = (a.value(self.graph), b.value(self.graph));
        self.graph.op(Code::Select, &[self.id, a.id(), b.id()])
    }
}

impl<'g> BitAnd for B<'g> {
    type Output = B<'g>;
    fn bitand(self, other: B<'g>) -> B<'g> {
        self.graph.op(Code::And, &[self.id, other.id])
    }
}

impl<'g> BitOr for B<'g> {
    type Output = B<'g>;
    fn bitor(self, other: B<'g>) -> B<'g> {
        self.graph.op(Code::Or, &[self.id, other.id])
    }
}

impl<'g> Not for B<'g> {
    type Output = B<'g>;
    fn not(self) -> B<'g> {
        let one = self.graph.push::<B<'g>>(Node::Int(1));
        self.graph.op(Code::Xor, &[self.id, one.id])
    }
}

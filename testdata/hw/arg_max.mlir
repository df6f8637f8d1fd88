#layout = #hw.layout<reg = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp = [[2, 0]]>
#layout1 = #hw.layout<reg = [], lane = [[0], [0], [0], [0], [1]], warp = [[2]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @arg_max target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[4, 32] x i32, #layout> loc(#loc1)
    %1 = hw.iota 1 : <[4, 32] x i32, #layout> loc(#loc1)
    %2 = hw.map(%0, %1) : (!hw.tile<[4, 32] x i32, #layout>, !hw.tile<[4, 32] x i32, #layout>) -> !hw.tile<[4, 32] x i32, #layout> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %10 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %11 = arith.addi %10, %arg3 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %12 = arith.muli %11, %c32_i32 : i32 loc(#loc1)
      %13 = arith.addi %12, %arg4 : i32 loc(#loc1)
      hw.yield %13 : i32 loc(#loc1)
    } loc(#loc1)
    %3 = hw.load %arg0[%2] : !llvm.ptr<1>, <[4, 32] x i32, #layout> -> <[4, 32] x f32, #layout> loc(#loc1)
    %4 = hw.iota 1 : <[4, 32] x i32, #layout> loc(#loc1)
    %5:2 = hw.reduce 1(%3, %4) : (!hw.tile<[4, 32] x f32, #layout>, !hw.tile<[4, 32] x i32, #layout>) -> (!hw.tile<[4] x f32, #layout1>, !hw.tile<[4] x i32, #layout1>) {
    ^bb0(%arg3: f32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1), %arg5: f32 loc("model.onnx":1:1), %arg6: i32 loc("model.onnx":1:1)):
      %10 = arith.cmpf ogt, %arg3, %arg5 : f32 loc(#loc1)
      %11 = arith.cmpf oeq, %arg3, %arg5 : f32 loc(#loc1)
      %12 = arith.cmpi slt, %arg4, %arg6 : i32 loc(#loc1)
      %13 = arith.andi %11, %12 : i1 loc(#loc1)
      %14 = arith.ori %10, %13 : i1 loc(#loc1)
      %15 = arith.select %14, %arg3, %arg5 : f32 loc(#loc1)
      %16 = arith.select %14, %arg4, %arg6 : i32 loc(#loc1)
      hw.yield %15, %16 : f32, i32 loc(#loc1)
    } loc(#loc1)
    %6 = hw.iota 0 : <[4] x i32, #layout1> loc(#loc1)
    %7 = hw.map(%6) : (!hw.tile<[4] x i32, #layout1>) -> !hw.tile<[4] x i32, #layout1> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %10 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %11 = arith.addi %10, %arg3 : i32 loc(#loc1)
      hw.yield %11 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %5#0, %arg1[%7] : <[4] x f32, #layout1>, !llvm.ptr<1>, <[4] x i32, #layout1> loc(#loc1)
    %8 = hw.iota 0 : <[4] x i32, #layout1> loc(#loc1)
    %9 = hw.map(%8) : (!hw.tile<[4] x i32, #layout1>) -> !hw.tile<[4] x i32, #layout1> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c4_i32 = arith.constant 4 : i32 loc(#loc1)
      %10 = arith.muli %c0_i32, %c4_i32 : i32 loc(#loc1)
      %11 = arith.addi %10, %arg3 : i32 loc(#loc1)
      hw.yield %11 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %5#1, %arg2[%9] : <[4] x i32, #layout1>, !llvm.ptr<1>, <[4] x i32, #layout1> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)

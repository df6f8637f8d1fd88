#layout = #hw.layout<reg = [[0, 1], [1, 0], [16, 0]], lane = [[0, 2], [0, 4], [0, 8], [2, 0], [4, 0]], warp = [[8, 0]]>
#layout1 = #hw.layout<reg = [[1, 0], [0, 1], [0, 16]], lane = [[2, 0], [4, 0], [8, 0], [0, 2], [0, 4]], warp = [[0, 8]]>
#layout2 = #hw.layout<reg = [[1], [16]], lane = [[0], [0], [0], [2], [4]], warp = [[8]]>
#layout3 = #hw.layout<reg = [[0, 1], [0, 16]], lane = [[0, 0], [0, 0], [0, 0], [0, 2], [0, 4]], warp = [[0, 8]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @transpose_bias target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[32, 16] x i32, #layout> loc(#loc1)
    %1 = hw.iota 1 : <[32, 16] x i32, #layout> loc(#loc1)
    %2 = hw.map(%0, %1) : (!hw.tile<[32, 16] x i32, #layout>, !hw.tile<[32, 16] x i32, #layout>) -> !hw.tile<[32, 16] x i32, #layout> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %14 = arith.muli %c0_i32, %c32_i32 : i32 loc(#loc1)
      %15 = arith.addi %14, %arg3 : i32 loc(#loc1)
      %c16_i32 = arith.constant 16 : i32 loc(#loc1)
      %16 = arith.muli %15, %c16_i32 : i32 loc(#loc1)
      %17 = arith.addi %16, %arg4 : i32 loc(#loc1)
      hw.yield %17 : i32 loc(#loc1)
    } loc(#loc1)
    %3 = hw.load %arg0[%2] : !llvm.ptr<1>, <[32, 16] x i32, #layout> -> <[32, 16] x f32, #layout> loc(#loc1)
    %4 = hw.transpose %3 by [1, 0] : <[32, 16] x f32, #layout> -> <[16, 32] x f32, #layout1> loc(#loc1)
    %5 = hw.iota 0 : <[32] x i32, #layout2> loc(#loc1)
    %6 = hw.map(%5) : (!hw.tile<[32] x i32, #layout2>) -> !hw.tile<[32] x i32, #layout2> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %14 = arith.muli %c0_i32, %c32_i32 : i32 loc(#loc1)
      %15 = arith.addi %14, %arg3 : i32 loc(#loc1)
      hw.yield %15 : i32 loc(#loc1)
    } loc(#loc1)
    %7 = hw.load %arg1[%6] : !llvm.ptr<1>, <[32] x i32, #layout2> -> <[32] x f32, #layout2> loc(#loc1)
    %8 = hw.expand_dims %7 at 0 : <[32] x f32, #layout2> -> <[1, 32] x f32, #layout3> loc(#loc1)
    %9 = hw.broadcast %8 : <[1, 32] x f32, #layout3> -> <[16, 32] x f32, #layout1> loc(#loc1)
    %10 = hw.map(%4, %9) : (!hw.tile<[16, 32] x f32, #layout1>, !hw.tile<[16, 32] x f32, #layout1>) -> !hw.tile<[16, 32] x f32, #layout1> {
    ^bb0(%arg3: f32 loc("model.onnx":1:1), %arg4: f32 loc("model.onnx":1:1)):
      %14 = arith.addf %arg3, %arg4 : f32 loc(#loc1)
      hw.yield %14 : f32 loc(#loc1)
    } loc(#loc1)
    %11 = hw.iota 0 : <[16, 32] x i32, #layout1> loc(#loc1)
    %12 = hw.iota 1 : <[16, 32] x i32, #layout1> loc(#loc1)
    %13 = hw.map(%11, %12) : (!hw.tile<[16, 32] x i32, #layout1>, !hw.tile<[16, 32] x i32, #layout1>) -> !hw.tile<[16, 32] x i32, #layout1> {
    ^bb0(%arg3: i32 loc("model.onnx":1:1), %arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c16_i32 = arith.constant 16 : i32 loc(#loc1)
      %14 = arith.muli %c0_i32, %c16_i32 : i32 loc(#loc1)
      %15 = arith.addi %14, %arg3 : i32 loc(#loc1)
      %c32_i32 = arith.constant 32 : i32 loc(#loc1)
      %16 = arith.muli %15, %c32_i32 : i32 loc(#loc1)
      %17 = arith.addi %16, %arg4 : i32 loc(#loc1)
      hw.yield %17 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %10, %arg2[%13] : <[16, 32] x f32, #layout1>, !llvm.ptr<1>, <[16, 32] x i32, #layout1> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)

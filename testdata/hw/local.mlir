#layout = #hw.layout<reg = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [1, 0], [2, 0], [4, 0], [8, 0]], warp = []>
#layout1 = #hw.layout<reg = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = []>
#loc1 = loc("model.onnx":1:1)
#shared_layout = #hw.shared_layout<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0]]>
module {
  hw.kernel @local target "sm_80" warps 1 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[16, 16] x i32, #layout> loc(#loc1)
    %1 = hw.iota 1 : <[16, 16] x i32, #layout> loc(#loc1)
    %2 = hw.map(%0, %1) : (!hw.tile<[16, 16] x i32, #layout>, !hw.tile<[16, 16] x i32, #layout>) -> !hw.tile<[16, 16] x i32, #layout> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c16_i32 = arith.constant 16 : i32 loc(#loc1)
      %9 = arith.muli %c0_i32, %c16_i32 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg2 : i32 loc(#loc1)
      %c16_i32_0 = arith.constant 16 : i32 loc(#loc1)
      %11 = arith.muli %10, %c16_i32_0 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg3 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    %3 = hw.load %arg0[%2] : !llvm.ptr<1>, <[16, 16] x i32, #layout> -> <[16, 16] x f16, #layout> loc(#loc1)
    %4 = hw.alloc : <2 x[16, 16] x f16, #shared_layout> loc(#loc1)
    %c1_i32 = arith.constant 1 : i32 loc(#loc1)
    hw.local_store %3, %4[%c1_i32] : <[16, 16] x f16, #layout>, <2 x[16, 16] x f16, #shared_layout> loc(#loc1)
    hw.barrier loc(#loc1)
    %5 = hw.local_load %4[%c1_i32] : <2 x[16, 16] x f16, #shared_layout> -> <[16, 16] x f16, #layout1> loc(#loc1)
    %6 = hw.iota 0 : <[16, 16] x i32, #layout1> loc(#loc1)
    %7 = hw.iota 1 : <[16, 16] x i32, #layout1> loc(#loc1)
    %8 = hw.map(%6, %7) : (!hw.tile<[16, 16] x i32, #layout1>, !hw.tile<[16, 16] x i32, #layout1>) -> !hw.tile<[16, 16] x i32, #layout1> {
    ^bb0(%arg2: i32 loc("model.onnx":1:1), %arg3: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c16_i32 = arith.constant 16 : i32 loc(#loc1)
      %9 = arith.muli %c0_i32, %c16_i32 : i32 loc(#loc1)
      %10 = arith.addi %9, %arg2 : i32 loc(#loc1)
      %c16_i32_0 = arith.constant 16 : i32 loc(#loc1)
      %11 = arith.muli %10, %c16_i32_0 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg3 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %5, %arg1[%8] : <[16, 16] x f16, #layout1>, !llvm.ptr<1>, <[16, 16] x i32, #layout1> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)

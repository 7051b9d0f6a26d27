// swift-tools-version: 5.9

import PackageDescription

let package = Package(
    name: "EdgeKitBundle",
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [.library(name: "EdgeKitBundle", targets: ["EdgeKitBundle"])],
    targets: [
        .target(name: "EdgeKitBundle"),
        .testTarget(name: "EdgeKitBundleTests", dependencies: ["EdgeKitBundle"]),
    ]
)

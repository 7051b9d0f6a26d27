// swift-tools-version: 5.9

// EdgeKit's Swift sources and a bundle's own check, with stubs in place of Apple's frameworks.

import PackageDescription

let stubs: [Target.Dependency] = ["CoreML", "CoreVideo", "CoreGraphics"]
let swift6: [SwiftSetting] = [.unsafeFlags(["-swift-version", "6", "-warnings-as-errors"])]

let package = Package(
    name: "Stubbed",
    targets: [
        .target(name: "CoreVideo", path: "Stubs/CoreVideo"),
        .target(name: "CoreGraphics", path: "Stubs/CoreGraphics"),
        .target(name: "CoreML", dependencies: ["CoreVideo"], path: "Stubs/CoreML"),
        .target(name: "EdgeKitBundle", dependencies: stubs, path: "bundle/swift/EdgeKitBundle", swiftSettings: swift6),
        .target(
            name: "PackagedBundle",
            path: "bundle",
            exclude: [
                "Package.swift", "check.py", "check_service.py", "golden_check.py", "graph.json", "report.md",
                "swift/EdgeKitBundle", "swift/GoldenCheckTests",
            ],
            sources: ["swift/PackagedBundle"],
            resources: [.copy("manifest.json"), .copy("golden"), .copy("model.mlpackage")],
            swiftSettings: swift6
        ),
        .testTarget(
            name: "GoldenCheckTests", dependencies: ["EdgeKitBundle", "PackagedBundle"] + stubs,
            path: "bundle/swift/GoldenCheckTests", swiftSettings: swift6),
        .testTarget(
            name: "EdgeKitBundleTests", dependencies: ["EdgeKitBundle"] + stubs, path: "EdgeKitBundleTests",
            swiftSettings: swift6),
    ]
)

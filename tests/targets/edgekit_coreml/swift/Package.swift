// swift-tools-version: 5.9

// EdgeKit's Swift sources and a bundle's own check, with stubs in place of Apple's frameworks.

import PackageDescription

let environment = Context.environment
/// Whether this system has Core AI.
let coreAI: [Target] = environment["STUB_CORE_AI"] == nil ? [] : [.target(name: "CoreAI", path: "Stubs/CoreAI")]
let stubs: [Target.Dependency] = ["CoreML", "CoreVideo", "CoreGraphics"] + coreAI.map { .byName(name: $0.name) }
/// What the bundle holds for other devices.
let further = environment["FURTHER_BUILD"].map { [Resource.copy($0)] } ?? []
let mainModel = environment["MAIN_MODEL"] ?? "model.mlpackage"
let swift6: [SwiftSetting] = [.unsafeFlags(["-swift-version", "6", "-warnings-as-errors"])]

let package = Package(
    name: "Stubbed",
    targets: coreAI + [
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
            resources: [.copy("manifest.json"), .copy("golden"), .copy(mainModel)] + further,
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

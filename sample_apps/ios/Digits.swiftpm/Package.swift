// swift-tools-version: 5.9

import AppleProductTypes
import PackageDescription

let package = Package(
    name: "Digits",
    platforms: [.iOS(.v17)],
    products: [
        .iOSApplication(
            name: "Digits",
            targets: ["Digits"],
            bundleIdentifier: "dev.edgekit.digits",
            displayVersion: "1.0",
            bundleVersion: "1",
            supportedDeviceFamilies: [.phone, .pad],
            supportedInterfaceOrientations: [.portrait, .landscapeLeft, .landscapeRight]
        )
    ],
    dependencies: [.package(path: "..")],
    targets: [
        .executableTarget(
            name: "Digits",
            dependencies: [.product(name: "EdgeKitBundle", package: "ios")],
            path: "Sources",
            resources: [.copy("digits-ios18")]
        )
    ]
)

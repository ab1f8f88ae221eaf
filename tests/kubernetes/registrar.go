// Tells a kubelet of a CSI driver: registrar NAME DRIVER-SOCKET SOCKET, the last one in the kubelet's plugins_registry.
package main

import (
	"context"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type server struct {
	registration.UnimplementedRegistrationServer
}

func (server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: os.Args[1], Endpoint: os.Args[2], SupportedVersions: []string{"1.0.0"}}, nil
}

func (server) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %t %s", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func main() {
	listener, err := net.Listen("unix", os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	all := grpc.NewServer()
	registration.RegisterRegistrationServer(all, server{})
	log.Fatal(all.Serve(listener))
}

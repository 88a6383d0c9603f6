// Package devices finds the devices of a machine: their properties, their location, their health
// and their usage.
//
// It loads no vendor's library. Containers can get the devices that the Container Device Interface
// describes. Their properties come from the kernel's files and from nvidia-smi, which is killed
// after a timeout.
package devices
